// Server-sent events out of the pieces in which they arrive.

// Lines end in LF or CRLF. Yields {data} for each event and {comment} for each
// comment line; event names and ids are not kept, this API has none.
export class EventReader {
  #line = '';  // begun, its end not yet seen
  #data = [];  // lines of the event under way

  // The events and comments that `text` completes.
  push(text) {
    const found = [];
    let start = 0;
    for (;;) {
      const end = text.indexOf('\n', start);
      if (end < 0) break;
      this.#take(this.#line + text.slice(start, end), found);
      this.#line = '';
      start = end + 1;
    }
    this.#line += text.slice(start);
    return found;
  }

  #take(line, found) {
    if (line.endsWith('\r')) line = line.slice(0, -1);
    if (line === '') {
      if (this.#data.length) found.push({data: this.#data.join('\n')});
      this.#data = [];
      return;
    }
    const colon = line.indexOf(':');
    if (colon === 0) {
      found.push({comment: line.slice(1).trim()});
      return;
    }
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1);
    if (name === 'data') {
      this.#data.push(value.startsWith(' ') ? value.slice(1) : value);
    }
  }
}
