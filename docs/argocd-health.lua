-- How Argo CD sees the objects of copyrator.dev. docs/gitops.md says where this belongs; what Ready, Stalled
-- and Degraded mean is there under "Watch".
if (obj.spec or {}).suspend then
  return {status = "Suspended", message = "spec.suspend is true"}
end

local conditions = {}
for _, one in ipairs((obj.status or {}).conditions or {}) do
  -- What speaks of an earlier spec says nothing of this one.
  if (one.observedGeneration or 0) >= (obj.metadata.generation or 0) then
    conditions[one.type] = one
  end
end
local function holds(type)
  return conditions[type] ~= nil and conditions[type].status == "True"
end

-- Nothing follows until somebody does something: an invalid spec, rights that lack, workloads that do not become ready.
if holds("Stalled") then
  return {status = "Degraded", message = conditions.Stalled.message}
end
-- Others are in the way: an object, a quota, a refusing webhook. Not so what was there before a policy: that is no fault of it.
if holds("Degraded") and conditions.Degraded.reason ~= "Violations" then
  return {status = "Degraded", message = conditions.Degraded.message}
end
if holds("Ready") and not holds("Reconciling") then
  return {status = "Healthy", message = conditions.Ready.message}
end
local now = conditions.Reconciling or conditions.Ready
return {status = "Progressing", message = now and now.message or "Copyrator has not looked at it yet"}
