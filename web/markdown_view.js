// Markdown on the page, built node by node: no text ever becomes markup.

import {copyButton, el} from './dom.js';
import {parseMarkdown} from './markdown.js';

// An element whose text may grow; blocks that stay the same keep their nodes.
export class MarkdownView {
  element = el('div', {class: 'markdown'});
  #blocks = [];

  update(text) {
    const blocks = parseMarkdown(text);
    const old = this.#blocks;
    let same = 0;
    while (same < blocks.length && same < old.length &&
           blocks[same].source === old[same].source) {
      ++same;
    }
    this.#blocks = blocks;
    if (same < blocks.length && growsCode(old[same], blocks[same])) {
      const code = this.element.children[same].querySelector('code');
      code.textContent = blocks[same].text;
      ++same;
    }
    while (this.element.children.length > same) this.element.lastChild.remove();
    for (const block of blocks.slice(same)) {
      this.element.append(renderBlock(block));
    }
  }
}

function growsCode(before, block) {
  return before?.type === 'code' && block.type === 'code' &&
      before.language === block.language;
}

function renderBlock(block) {
  switch (block.type) {
    case 'heading':
      // The page's own headings come first.
      return el(`h${Math.min(block.level + 2, 6)}`,
                {class: `level-${block.level}`}, ...inlines(block.children));
    case 'code': return renderCode(block);
    case 'quote':
      return el('blockquote', {}, ...block.children.map(renderBlock));
    case 'list': return renderList(block);
    case 'table': return renderTable(block);
    case 'rule': return el('hr');
    default: return el('p', {}, ...inlines(block.children));
  }
}

function renderCode({language, text}) {
  const code = el('code', {textContent: text});
  return el('figure', {class: 'code'},
            el('figcaption', {}, el('span', {textContent: language || 'text'}),
               copyButton(() => code.textContent)),
            el('pre', {}, code));
}

function renderList({ordered, start, loose, items}) {
  const list = el(ordered ? 'ol' : 'ul', ordered ? {start} : {});
  for (const children of items) {
    list.append(el('li', {}, ...children.flatMap(
        (block) => block.type === 'paragraph' && !loose ?
            inlines(block.children) : [renderBlock(block)])));
  }
  return list;
}

function renderTable({columns, head, rows}) {
  const row = (name, cells) => el('tr', {}, ...cells.map(
      (cell, i) => el(name, {class: `align-${columns[i] || 'none'}`},
                      ...inlines(cell))));
  return el('div', {class: 'table'},
            el('table', {}, el('thead', {}, row('th', head)),
               el('tbody', {}, ...rows.map((cells) => row('td', cells)))));
}

function inlines(nodes) {
  return nodes.map(renderInline);
}

function renderInline(node) {
  switch (node.type) {
    case 'text': return document.createTextNode(node.text);
    case 'code': return el('code', {textContent: node.text});
    case 'break': return el('br');
    case 'link':
      return el('a', {
        href: node.address, target: '_blank', rel: 'noopener noreferrer',
      }, ...inlines(node.children));
    default: return el(node.type, {}, ...inlines(node.children));
  }
}
