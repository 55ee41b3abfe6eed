// A side of the page with a button that shows and hides it. On a wide page it
// stands beside the rest; on a narrow one it lies above it, and the rest waits.

export class Drawer {
  #element;
  #button;
  #wide;
  #rest;

  // `media` is true where there is room beside; `rest` is what it covers.
  constructor(element, button, media, rest) {
    this.#element = element;
    this.#button = button;
    this.#wide = matchMedia(media);
    this.#rest = rest;
    button.addEventListener('click', () => this.set(!this.isOpen));
    element.querySelector('.close').onclick = () => this.set(false);
    element.addEventListener('keydown', (event) => {
      if (event.key !== 'Escape' || this.#wide.matches) return;
      event.stopPropagation();
      this.set(false);
    });
    document.addEventListener('click', (event) => {
      const path = event.composedPath();
      if (!path.includes(element) && !path.includes(button)) this.closeAbove();
    });
    this.#wide.addEventListener('change', () => this.set(this.#wide.matches));
    this.set(this.#wide.matches, false);
  }

  get isOpen() {
    return !this.#element.hidden;
  }

  set(open, moveFocus = true) {
    const above = !this.#wide.matches;
    const hadFocus = this.#element.contains(document.activeElement);
    this.#element.hidden = !open;
    this.#element.classList.toggle('above', above);
    this.#button.ariaExpanded = String(open);
    for (const element of this.#rest) element.inert = open && above;
    if (!moveFocus) return;
    if (open && above) this.#element.querySelector('button').focus();
    if (!open && hadFocus) this.#button.focus();
  }

  closeAbove() {
    if (!this.#wide.matches && this.isOpen) this.set(false);
  }
}
