// Pages with sliders in frames: as high as what they show, in the colours of the page around them.
"use strict";
const frames = () => document.querySelectorAll("iframe.explorer");
addEventListener("message", (event) => {
  if (!event.data || !event.data.svmcvxHeight) return;
  for (const frame of frames()) if (frame.contentWindow === event.source) frame.style.height = event.data.svmcvxHeight + 16 + "px";
});
function tellTheme() {
  const theme = document.documentElement.dataset.theme;
  for (const frame of frames()) frame.contentWindow.postMessage({ svmcvxTheme: theme }, "*");
}
new MutationObserver(tellTheme).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
addEventListener("DOMContentLoaded", () => {
  for (const frame of frames()) frame.addEventListener("load", tellTheme);
});
