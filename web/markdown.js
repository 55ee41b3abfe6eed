// Markdown as a tree of blocks: CommonMark's common part and tables, in time
// linear in the text, whatever the text. Half-open text is fine, so a reply can
// be parsed while it comes. HTML is text. Left out: indented code and
// underlined headings (both would make a stream flicker), link references.
//
// Blocks: {type: paragraph|heading|code|quote|list|table|rule, ...}; those of
// the top level carry their `source`, on which alone they depend.

import {parseInline} from './markdown_inline.js';

const maxDepth = 12;  // of quotes and lists; deeper ones are text

export function parseMarkdown(text) {
  const lines = text.split('\n').map(
      (line) => line.endsWith('\r') ? line.slice(0, -1) : line);
  return parseBlocks(lines, 0);
}

function parseBlocks(lines, depth) {
  const blocks = [];
  for (let i = 0; i < lines.length;) {
    if (isBlank(lines[i])) {
      ++i;
      continue;
    }
    const {block, end} = readBlock(lines, i, depth);
    if (depth === 0) block.source = lines.slice(i, end).join('\n');
    blocks.push(block);
    i = end;
  }
  return blocks;
}

// Readers take lines[i] on and return {block, end}, or null if another kind
// begins there.
function readBlock(lines, i, depth) {
  return readFence(lines, i) || readHeading(lines, i) || readRule(lines, i) ||
      (depth < maxDepth &&
       (readQuote(lines, i, depth) || readList(lines, i, depth))) ||
      readTable(lines, i) || readParagraph(lines, i);
}

const isBlank = (line) => line.trim() === '';

const fenceStart = /^( {0,3})(`{3,}|~{3,})(.*)$/;
const fenceEnd = /^ {0,3}(`{3,}|~{3,})[ \t]*$/;
const headingStart = /^ {0,3}(#{1,6})(?=[ \t]|$)/;
const rule = /^ {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*$/;
const quoteStart = /^ {0,3}> ?/;
const itemStart = /^( {0,3})([-*+]|(\d{1,9})[.)])([ \t]+|$)/;

function matchFence(line) {
  const match = fenceStart.exec(line);
  return match && !(match[2][0] === '`' && match[3].includes('`')) ? match :
                                                                     null;
}

// Whether a line ends the paragraph before it.
function interrupts(line) {
  if (matchFence(line) || headingStart.test(line) || rule.test(line) ||
      quoteStart.test(line)) {
    return true;
  }
  const item = itemStart.exec(line);
  return item !== null && item[0].length < line.length &&
      (item[3] === undefined || item[3] === '1');
}

function readFence(lines, i) {
  const open = matchFence(lines[i]);
  if (!open) return null;
  const [, indent, fence, info] = open;
  const code = [];
  let closed = false;
  for (++i; i < lines.length && !closed; ++i) {
    const close = fenceEnd.exec(lines[i]);
    closed = close !== null && close[1][0] === fence[0] &&
        close[1].length >= fence.length;
    if (!closed) code.push(dedent(lines[i], indent.length));
  }
  const language = info.trim().split(/\s/, 1)[0];
  return {block: {type: 'code', language, text: code.join('\n')}, end: i};
}

function readHeading(lines, i) {
  const match = headingStart.exec(lines[i]);
  if (!match) return null;
  let text = lines[i].slice(match[0].length).trim();
  let end = text.length;
  while (end > 0 && text[end - 1] === '#') --end;
  if (end === 0 || text[end - 1] === ' ') text = text.slice(0, end).trim();
  const block = {
    type: 'heading',
    level: match[1].length,
    children: parseInline(text),
  };
  return {block, end: i + 1};
}

function readRule(lines, i) {
  return rule.test(lines[i]) ? {block: {type: 'rule'}, end: i + 1} : null;
}

function readQuote(lines, i, depth) {
  if (!quoteStart.test(lines[i])) return null;
  const inner = [];
  for (; i < lines.length; ++i) {
    const marker = quoteStart.exec(lines[i]);
    if (marker) {
      inner.push(lines[i].slice(marker[0].length));
    } else if (continuesLazily(inner.at(-1), lines[i])) {
      inner.push(lines[i]);
    } else {
      break;
    }
  }
  return {
    block: {type: 'quote', children: parseBlocks(inner, depth + 1)},
    end: i,
  };
}

// Whether a line belongs to the paragraph of the line before it although the
// container's mark is missing.
function continuesLazily(before, line) {
  return !isBlank(before) && !isBlank(line) && !interrupts(line) &&
      !matchFence(before) && !headingStart.test(before);
}

function readList(lines, i, depth) {
  const first = itemStart.exec(lines[i]);
  if (!first) return null;
  const block = {
    type: 'list',
    ordered: first[3] !== undefined,
    start: Number(first[3] ?? 1),
    loose: false,
    items: [],
  };
  const kind = first[2].at(-1);
  let afterBlank = false;
  while (i < lines.length) {
    const match = itemStart.exec(lines[i]);
    if (!match || match[2].at(-1) !== kind || rule.test(lines[i])) break;
    const {inner, end} = readItem(lines, i, match);
    const children = parseBlocks(inner, depth + 1);
    block.items.push(children);
    block.loose ||= afterBlank || (children.length > 1 && hasGap(inner));
    i = end;
    let next = i;
    while (next < lines.length && isBlank(lines[next])) ++next;
    afterBlank = next > i;
    if (next === lines.length || !itemStart.test(lines[next])) break;
    i = next;
  }
  return {block, end: i};
}

// The lines of one item, without its indentation and trailing blank lines.
function readItem(lines, i, marker) {
  const [whole, indent, mark, , space] = marker;
  const lead = indent.length + mark.length;
  const offset = lead + (space.length > 4 ? 1 : Math.max(space.length, 1));
  // Models indent what belongs to "1." by two spaces as often as by three.
  const least = Math.min(offset, indent.length + 2);
  const inner = [lines[i].slice(whole.length)];
  let end = i + 1;
  for (let at = i + 1; at < lines.length; ++at) {
    const line = lines[at];
    if (isBlank(line)) {
      inner.push('');
      continue;
    }
    if (indentOf(line) >= least) {
      inner.push(dedent(line, offset));
    } else if (continuesLazily(inner.at(-1), line) &&
               !itemStart.test(line)) {
      inner.push(line);
    } else {
      break;
    }
    end = at + 1;
  }
  inner.length = end - i;
  return {inner, end};
}

// Whether a blank line parts what an item holds, code not looked into.
function hasGap(lines) {
  let inCode = false;
  for (const line of lines) {
    if (fenceStart.test(line)) inCode = !inCode;
    if (!inCode && isBlank(line)) return true;
  }
  return false;
}

function isTable(lines, i) {
  return i + 1 < lines.length && lines[i].includes('|') &&
      /^[ \t|:-]+$/.test(lines[i + 1]) &&
      columnsOf(lines[i + 1])?.length === splitRow(lines[i]).length;
}

// The alignment of each column, or null if the row is no table's second one.
function columnsOf(line) {
  const cells = splitRow(line);
  if (!cells.every((cell) => /^:?-+:?$/.test(cell))) return null;
  return cells.map((cell) => {
    const left = cell.startsWith(':'), right = cell.endsWith(':');
    return right ? (left ? 'center' : 'right') : (left ? 'left' : '');
  });
}

function splitRow(line) {
  line = line.trim();
  const cells = [];
  let cell = '';
  for (let i = line.startsWith('|') ? 1 : 0; i < line.length; ++i) {
    if (line[i] === '\\' && line[i + 1] === '|') {
      cell += '|';
      ++i;
    } else if (line[i] === '|') {
      cells.push(cell.trim());
      cell = '';
    } else {
      cell += line[i];
    }
  }
  if (cell !== '' || !line.endsWith('|')) cells.push(cell.trim());
  return cells;
}

function readTable(lines, i) {
  if (!isTable(lines, i)) return null;
  const columns = columnsOf(lines[i + 1]);
  const cellsOf = (line) => splitRow(line).slice(0, columns.length).map(
      (cell) => parseInline(cell));
  const block = {type: 'table', columns, head: cellsOf(lines[i]), rows: []};
  for (i += 2; i < lines.length; ++i) {
    if (isBlank(lines[i]) || interrupts(lines[i])) break;
    block.rows.push(cellsOf(lines[i]));
  }
  return {block, end: i};
}

function readParagraph(lines, i) {
  const text = [lines[i].trimStart()];
  for (++i; i < lines.length; ++i) {
    if (isBlank(lines[i]) || interrupts(lines[i]) || isTable(lines, i)) break;
    text.push(lines[i].trimStart());
  }
  const children = parseInline(text.join('\n').trimEnd());
  return {block: {type: 'paragraph', children}, end: i};
}

// Columns of leading white space; a tab is four.
function indentOf(line) {
  let columns = 0;
  for (let i = 0; line[i] === ' ' || line[i] === '\t'; ++i) {
    columns += line[i] === '\t' ? 4 : 1;
  }
  return columns;
}

// The line without its first `columns` columns, as far as they are white space.
function dedent(line, columns) {
  let i = 0;
  for (; columns > 0 && line[i] === ' '; ++i) --columns;
  if (columns <= 0 || line[i] !== '\t') return line.slice(i);
  return ' '.repeat(Math.max(4 - columns, 0)) + line.slice(i + 1);
}
