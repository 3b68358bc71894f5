"use strict";
// What all pages share: buttons that copy, and packets whose display filter is copied when they are chosen.
document.documentElement.classList.add("js");

function copied(button, text) {
  const done = () => {
    const before = button.dataset.label || button.textContent;
    button.dataset.label = before;
    button.textContent = "copied";
    setTimeout(() => { button.textContent = before; }, 1200);
  };
  if (navigator.clipboard && window.isSecureContext) {
    navigator.clipboard.writeText(text).then(done, () => selectAndCopy(text, done));
  } else {
    selectAndCopy(text, done);
  }
}

// selectAndCopy is for pages from a file share, where browsers offer no clipboard.
function selectAndCopy(text, done) {
  const area = document.createElement("textarea");
  area.value = text;
  area.setAttribute("aria-hidden", "true");
  area.className = "offscreen";
  document.body.append(area);
  area.select();
  if (document.execCommand("copy")) {
    done();
  }
  area.remove();
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-copy]");
  if (button) {
    copied(button, button.dataset.copy);
  }
});

// A place inside closed details is opened before it is shown.
function openTarget() {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) {
    return;
  }
  for (let box = target.closest("details"); box; box = box.parentElement.closest("details")) {
    box.open = true;
  }
  const own = target.querySelector("details");
  if (own && target.tagName === "TR") {
    own.open = true;
  }
  target.scrollIntoView({ block: target.closest("table") ? "center" : "start" });
}
window.addEventListener("hashchange", openTarget);
openTarget();

// Each packet of a list gets a button that copies its display filter.
for (const link of document.querySelectorAll("a[data-filter]")) {
  const button = document.createElement("button");
  button.type = "button";
  button.dataset.copy = link.dataset.filter;
  button.textContent = "copy filter";
  button.setAttribute("aria-label", "copy filter of packet " + link.textContent);
  const cell = document.createElement("td");
  cell.append(button);
  link.closest("tr").append(cell);
}

// make returns an element with a class and children; text is never markup.
function make(tag, className, ...children) {
  const element = document.createElement(tag);
  if (className) {
    element.className = className;
  }
  element.append(...children);
  return element;
}
