// A tree of web/markdown.js as HTML, in the form of markdown_cases.json.

const escape = (text) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;').replaceAll('"', '&quot;');
const all = (nodes) => nodes.map(inlineHtml).join('');
const wrap = (tag, inner, attributes = '') =>
    `<${tag}${attributes}>${inner}</${tag}>`;

function inlineHtml(node) {
  switch (node.type) {
    case 'text': return escape(node.text);
    case 'code': return wrap('code', escape(node.text));
    case 'break': return '<br>';
    case 'link':
      return wrap('a', all(node.children), ` href="${escape(node.address)}"`);
    case 'del': return wrap('s', all(node.children));
    default: return wrap(node.type, all(node.children));
  }
}

export function blockHtml(block) {
  switch (block.type) {
    case 'paragraph': return wrap('p', all(block.children));
    case 'heading': return wrap(`h${block.level}`, all(block.children));
    case 'rule': return '<hr>';
    case 'quote':
      return wrap('blockquote', block.children.map(blockHtml).join(''));
    case 'code': {
      const language = block.language &&
          ` class="language-${escape(block.language)}"`;
      return wrap('pre', wrap('code', escape(block.text), language));
    }
    case 'list': return listHtml(block);
    default: return tableHtml(block);
  }
}

function listHtml({ordered, start, loose, items}) {
  const item = (block) => block.type === 'paragraph' && !loose ?
      all(block.children) : blockHtml(block);
  return wrap(ordered ? 'ol' : 'ul',
              items.map((blocks) => wrap('li', blocks.map(item).join('')))
                  .join(''),
              ordered && start !== 1 ? ` start="${start}"` : '');
}

function tableHtml({columns, head, rows}) {
  const row = (tag, cells) => wrap('tr', cells.map((cell, i) => wrap(
      tag, all(cell), columns[i] && ` style="text-align:${columns[i]}"`))
      .join(''));
  const body = rows.map((cells) => row('td', cells)).join('');
  return wrap('table', wrap('thead', row('th', head)) +
                           (body && wrap('tbody', body)));
}
