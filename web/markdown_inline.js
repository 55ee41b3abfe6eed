// The inside of a Markdown paragraph as a tree: {type: text|code|break} and
// {type: em|strong|del|link, children}. A newline is a break: models mean it.

const maxOpen = 32;       // brackets, and emphasis: further ones are text
const maxAddress = 4096;  // characters of a link's address
const special = /[\\`*_~[\]!\n<]|https?:\/\//g;
const punctuation = /[\p{P}\p{S}]/u;
const space = /\s/;

export function parseInline(text) {
  return new InlineParser(text).parse();
}

// The address if following it is safe, else null.
export function safeAddress(address) {
  return /^(https?:\/\/|mailto:)[^\s]+$/i.test(address) ? address : null;
}

class InlineParser {
  #text;
  #at = 0;
  #nodes = [];     // done, or {type: delimiter} until resolve()
  #brackets = [];  // {node, image}: where a link's or image's text begins
  #ticks = null;   // run length -> {places, next} of such runs of backticks

  constructor(text) {
    this.#text = text;
  }

  parse() {
    const text = this.#text;
    while (this.#at < text.length) {
      special.lastIndex = this.#at;
      const match = special.exec(text);
      const next = match ? match.index : text.length;
      this.#say(text.slice(this.#at, next));
      this.#at = next;
      if (match) this.#readSpecial(match[0]);
    }
    return resolveEmphasis(this.#nodes);
  }

  #say(text) {
    const last = this.#nodes.at(-1);
    if (text === '') return;
    if (last?.type === 'text') {
      last.text += text;
    } else {
      this.#nodes.push({type: 'text', text});
    }
  }

  // Says the next `count` characters as they are.
  #literal(count) {
    this.#say(this.#text.slice(this.#at, this.#at + count));
    this.#at += count;
  }

  #readSpecial(mark) {
    switch (mark) {
      case '\\': return this.#readEscape();
      case '`': return this.#readCode();
      case '*':
      case '_':
      case '~': return this.#readDelimiter(mark);
      case '[': return this.#openBracket(false);
      case ']': return this.#closeBracket();
      case '!':
        return this.#text[this.#at + 1] === '[' ? this.#openBracket(true) :
                                                  this.#literal(1);
      case '\n': return this.#readBreak();
      case '<': return this.#readAngle();
      default:
        return this.#brackets.length ? this.#literal(mark.length) :
                                       this.#readAddress(mark);
    }
  }

  #readEscape() {
    const next = this.#text[this.#at + 1] ?? '';
    ++this.#at;
    if (/[!-/:-@[-`{-~]/.test(next)) {
      this.#literal(1);
    } else if (next !== '\n') {
      this.#say('\\');
    }
  }

  #readBreak() {
    const last = this.#nodes.at(-1);
    if (last?.type === 'text') last.text = last.text.trimEnd();
    this.#nodes.push({type: 'break'});
    ++this.#at;
  }

  #runLength(mark) {
    let end = this.#at;
    while (this.#text[end] === mark) ++end;
    return end - this.#at;
  }

  #readCode() {
    const length = this.#runLength('`');
    const start = this.#at + length;
    const close = this.#nextTicks(length, start);
    if (close < 0) return this.#literal(length);
    let code = this.#text.slice(start, close).replaceAll('\n', ' ');
    if (code.startsWith(' ') && code.endsWith(' ') && code.trim() !== '') {
      code = code.slice(1, -1);
    }
    this.#nodes.push({type: 'code', text: code});
    this.#at = close + length;
  }

  // The place of the first run of exactly `length` backticks from `from` on, or
  // -1. Places asked for only grow.
  #nextTicks(length, from) {
    if (!this.#ticks) {
      this.#ticks = new Map();
      for (const {0: run, index} of this.#text.matchAll(/`+/g)) {
        if (!this.#ticks.has(run.length)) {
          this.#ticks.set(run.length, {places: [], next: 0});
        }
        this.#ticks.get(run.length).places.push(index);
      }
    }
    const runs = this.#ticks.get(length);
    if (!runs) return -1;
    while (runs.places[runs.next] < from) ++runs.next;
    return runs.places[runs.next] ?? -1;
  }

  // CommonMark's flanking rules.
  #readDelimiter(mark) {
    const count = this.#runLength(mark);
    if (mark === '~' && count !== 2) return this.#literal(count);
    const before = this.#text[this.#at - 1] ?? ' ';
    const after = this.#text[this.#at + count] ?? ' ';
    const left = !space.test(after) &&
        (!punctuation.test(after) || space.test(before) ||
         punctuation.test(before));
    const right = !space.test(before) &&
        (!punctuation.test(before) || space.test(after) ||
         punctuation.test(after));
    const inWord = mark === '_' && left && right;
    this.#nodes.push({
      type: 'delimiter',
      mark,
      count,
      length: count,
      opens: left && (!inWord || punctuation.test(before)),
      closes: right && (!inWord || punctuation.test(after)),
    });
    this.#at += count;
  }

  #openBracket(image) {
    const length = image ? 2 : 1;
    if (this.#brackets.length === maxOpen) return this.#literal(length);
    this.#brackets.push({node: this.#nodes.length, image});
    this.#nodes.push({type: 'text', text: image ? '![' : '['});
    this.#nodes.push({type: 'text', text: ''});  // say() adds here
    this.#at += length;
  }

  #closeBracket() {
    const open = this.#brackets.pop();
    const target = open && this.#readTarget(this.#at + 1);
    if (!target) return this.#literal(1);
    const children = resolveEmphasis(this.#nodes.splice(open.node).slice(1));
    const address = safeAddress(target.address);
    if (address) {
      this.#nodes.push({type: 'link', address, children});
    } else {
      for (const child of children) this.#nodes.push(child);
    }
    if (!open.image) this.#brackets.length = 0;  // no links inside links
    this.#at = target.end;
  }

  // What stands behind a link's text: (address "title"). Null if it does not.
  #readTarget(at) {
    const text = this.#text;
    if (text[at] !== '(') return null;
    at = skipSpaces(text, at + 1);
    let address;
    if (text[at] === '<') {
      const end = endOf(text, at + 1, '>');
      if (end < 0) return null;
      address = text.slice(at + 1, end).replaceAll(' ', '%20');
      at = end + 1;
    } else {
      const end = endOfAddress(text, at);
      address = text.slice(at, end);
      at = end;
    }
    at = skipSpaces(text, at);
    if (text[at] === '"' || text[at] === '\'') {
      const end = endOf(text, at + 1, text[at]);
      if (end < 0) return null;
      at = skipSpaces(text, end + 1);
    }
    return text[at] === ')' ? {address, end: at + 1} : null;
  }

  #readAngle() {
    const pattern = /<(?:((?:https?:\/\/|mailto:)[^\s<>]{1,4096})|br ?\/?)>/yi;
    pattern.lastIndex = this.#at;
    const match = pattern.exec(this.#text);
    if (!match) return this.#literal(1);
    this.#at += match[0].length;
    if (match[1]) {
      this.#pushAddress(match[1]);
    } else {
      this.#nodes.push({type: 'break'});
    }
  }

  // A bare address in the text, without the punctuation of its sentence.
  #readAddress(scheme) {
    const pattern = /[^\s<>"`|]+/y;
    pattern.lastIndex = this.#at;
    const [run] = pattern.exec(this.#text);
    const tail = run.includes('(') ? '.,;:!?\'*_~]' : '.,;:!?\'*_~])';
    let end = run.length;
    while (end > 0 && tail.includes(run[end - 1])) --end;
    if (end <= scheme.length) return this.#literal(scheme.length);
    this.#pushAddress(run.slice(0, end));
    this.#at += end;
  }

  #pushAddress(address) {
    const children = [{type: 'text', text: address}];
    this.#nodes.push({type: 'link', address, children});
  }
}

function skipSpaces(text, at) {
  while (text[at] === ' ' || text[at] === '\n') ++at;
  return at;
}

// The place of `mark` on this line, near enough, or -1.
function endOf(text, at, mark) {
  for (let i = at; i < at + maxAddress && i < text.length; ++i) {
    if (text[i] === mark) return i;
    if (text[i] === '\n' || text[i] === '<') return -1;
  }
  return -1;
}

function endOfAddress(text, at) {
  let depth = 0;
  for (let i = at; i < at + maxAddress && i < text.length; ++i) {
    if (space.test(text[i])) return i;
    if (text[i] === '(' && ++depth > maxOpen) return i;
    if (text[i] === ')' && --depth < 0) return i;
  }
  return Math.min(at + maxAddress, text.length);
}

// Pairs the delimiters; those without a partner become text. Each open one has
// a frame, which holds what came since.
function resolveEmphasis(nodes) {
  const frames = [{children: []}];
  // Leaves the frames above `depth`: what they hold is their parent's.
  const leave = (depth) => {
    while (frames.length > depth) {
      const {open, children} = frames.pop();
      const parent = frames.at(-1).children;
      parent.push({type: 'text', text: open.mark.repeat(open.count)});
      for (const child of children) parent.push(child);
    }
  };
  for (const node of nodes) {
    if (node.type !== 'delimiter') {
      frames.at(-1).children.push(node);
      continue;
    }
    for (let found; node.closes && (found = findOpener(frames, node)) > 0;) {
      leave(found + 1);
      const {open, children} = frames[found];
      const count = node.mark === '~' || (open.count > 1 && node.count > 1) ?
          2 : 1;
      const type = node.mark === '~' ? 'del' : count === 2 ? 'strong' : 'em';
      const wrapped = {type, children};
      open.count -= count;
      node.count -= count;
      if (open.count === 0) {
        frames.pop();
        frames.at(-1).children.push(wrapped);
      } else {
        frames[found].children = [wrapped];
      }
    }
    if (node.count === 0) continue;
    if (node.opens && frames.length <= maxOpen) {
      frames.push({open: node, children: []});
    } else {
      const text = node.mark.repeat(node.count);
      frames.at(-1).children.push({type: 'text', text});
    }
  }
  leave(1);
  return frames[0].children.filter((node) => node.text !== '');
}

function findOpener(frames, closer) {
  if (closer.count === 0) return 0;
  for (let i = frames.length - 1; i > 0; --i) {
    const {open} = frames[i];
    if (open.mark !== closer.mark) continue;
    // CommonMark's rule of three.
    const clash = (open.closes || closer.opens) &&
        (open.length + closer.length) % 3 === 0 &&
        (open.length % 3 !== 0 || closer.length % 3 !== 0);
    if (!clash) return i;
  }
  return 0;
}
