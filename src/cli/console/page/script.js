"use strict";
// The one-time token stands behind `#` in the printed address, which no server and no log gets to see.
const token = document.getElementById("token");
if (token && location.hash.length > 1) {
  token.value = location.hash.slice(1);
  history.replaceState(null, "", "/login");
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
