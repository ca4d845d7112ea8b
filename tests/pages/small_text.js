// Texts that are shown with letters lower than 24 pixels.
() => {
    const words = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const small = [];
    while (words.nextNode()) {
        const text = words.currentNode.data.trim();
        const e = words.currentNode.parentElement;
        if (!text || !e.checkVisibility() || e.matches("script, style")) continue;
        const scale = e.closest("svg") ? e.getScreenCTM().a : 1;
        const size = parseFloat(getComputedStyle(e).fontSize) * scale;
        if (size < 23.99) small.push(`${size} px: ${text}`);
    }
    return small;
}
