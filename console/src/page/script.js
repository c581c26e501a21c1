"use strict";
const base = document.documentElement.dataset.base;
// The one-time token stands behind `#` in the printed address, which no server and no log gets to see. A form for lasting tokens
// takes none from there: a link would log people in as somebody else.
const token = document.querySelector("#token[data-once]");
if (token && location.hash.length > 1) {
  token.value = location.hash.slice(1);
  history.replaceState(null, "", location.pathname);
  token.form.submit();
}
// `/` goes to the first field of the page, as in many tools.
addEventListener("keydown", (event) => {
  const isTyping = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
  const field = document.querySelector("main input, footer input");
  if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey && field) {
    event.preventDefault();
    field.focus();
  }
});
// Live: one stream, while somebody looks.
const feed = document.getElementById("feed");
if (feed) {
  const [empty, list] = feed.children;
  const state = document.getElementById("feed-state");
  const most = 200;
  let source, timer, after = feed.dataset.after;
  const said = (thing) => `${thing.kind} ${thing.namespace ? thing.namespace + "/" : ""}${thing.name}`;
  const put = (one) => {
    const row = document.getElementById(one.warning ? "happening-warning" : "happening").content.firstElementChild.cloneNode(true);
    const slot = (name) => row.querySelector(`[data-slot=${name}]`);
    row.dataset.id = one.id;
    for (const name of ["about", "related"]) {
      if (!one[name]) continue;
      slot(name).textContent = said(one[name]);
      if (one[name].page) slot(name).href = base + one[name].page + location.search;
    }
    for (const name of ["message", "at", "reason"]) slot(name).textContent = one[name];
    slot("at").dateTime = one.at;
    if (one.count > 1) slot("count").textContent = `${one.count} times`;
    for (const old of list.children) if (old.dataset.id === one.id) old.remove();
    list.prepend(row);
    while (list.children.length > most) list.lastElementChild.remove();
    empty.hidden = true;
    list.hidden = false;
  };
  const say = (text, isOn) => {
    state.textContent = text;
    state.classList.toggle("on", isOn);
  };
  const close = () => {
    clearTimeout(timer);
    source?.close();
    source = undefined;
  };
  const open = () => {
    close();
    const asked = new URLSearchParams(location.search);
    asked.set("after", after);
    source = new EventSource(`${base}/api/v1/events?${asked}`);
    source.onopen = () => say("New events appear here by themselves.", true);
    source.onmessage = (event) => {
      after = event.lastEventId;
      put(JSON.parse(event.data));
    };
    source.addEventListener("reset", () => location.reload());
    source.addEventListener("problem", (event) => say(JSON.parse(event.data).message, false));
    source.onerror = () => {
      say("It is not live now; the console is asked again.", false);
      if (source?.readyState === EventSource.CONNECTING) return;
      close();
      timer = setTimeout(open, 10000);
    };
  };
  const look = () => (document.hidden ? close() : open());
  document.addEventListener("visibilitychange", look);
  addEventListener("pagehide", close);
  look();
}
