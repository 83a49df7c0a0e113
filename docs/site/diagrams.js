// Draws the diagrams of a page. The library is large, so only a page with diagrams loads it.
(() => {
  const blocks = document.querySelectorAll("code.language-mermaid");
  if (!blocks.length) return;
  for (const block of blocks) {
    const drawing = document.createElement("div");
    drawing.className = "mermaid";
    drawing.textContent = block.textContent;
    block.parentElement.replaceWith(drawing);
  }
  const isDark = ["coal", "navy", "ayu"].some((theme) => document.documentElement.classList.contains(theme));
  const script = document.createElement("script");
  script.src = `${path_to_root}site/mermaid.min.js`;
  script.onload = () => {
    mermaid.initialize({ startOnLoad: false, theme: isDark ? "dark" : "neutral" });
    mermaid.run();
  };
  document.head.append(script);
})();
