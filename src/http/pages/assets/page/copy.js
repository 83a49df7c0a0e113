// Copies a text to the clipboard.

import { announce, h } from "./dom.js";

/** A button that copies a text. Where the browser allows no clipboard, the text is selected instead. */
export function copyButton(text, source) {
  return h("button", {
    type: "button", class: "small", onclick: async (event) => {
      const button = event.currentTarget;
      try {
        await navigator.clipboard.writeText(text);
        button.textContent = "Copied";
        announce("Copied");
      } catch {
        getSelection().selectAllChildren(source);
        button.textContent = "Selected";
      }
      setTimeout(() => (button.textContent = "Copy"), 2000);
    },
  }, "Copy");
}
