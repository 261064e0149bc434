// What scrolls sideways can be reached by the keyboard, and every bar of buttons has a name of its own.
addEventListener("load", () => {
  for (const box of document.querySelectorAll(".md-typeset pre > code, .md-typeset__scrollwrap"))
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0
  document.querySelectorAll(".md-code__nav").forEach((bar, i) => { bar.ariaLabel = `Code ${i + 1}` })
})
