// Texts of the slides that cannot be edited, except code, pictures and measured numbers.
() => {
    const words = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
    const fixed = [];
    while (words.nextNode()) {
        const parent = words.currentNode.parentElement;
        if (words.currentNode.data.trim() && !parent.isContentEditable) fixed.push(parent);
    }
    return fixed.map((e) => (e.closest("pre, svg, .number, .machine") ? "" : e.outerHTML));
}
