// A browser's storage with a limit of characters.
export class Storage {
  #items = new Map();
  #limit;

  constructor(limit = Infinity) {
    this.#limit = limit;
  }

  get length() {
    return this.#items.size;
  }

  get chars() {
    return [...this.#items].reduce(
        (sum, [key, value]) => sum + key.length + value.length, 0);
  }

  key(index) {
    return [...this.#items.keys()][index] ?? null;
  }

  getItem(key) {
    return this.#items.get(key) ?? null;
  }

  setItem(key, value) {
    const before = this.getItem(key);
    this.#items.set(key, value);
    if (this.chars <= this.#limit) return;
    before === null ? this.#items.delete(key) : this.#items.set(key, before);
    throw new DOMException('full', 'QuotaExceededError');
  }

  removeItem(key) {
    this.#items.delete(key);
  }
}
