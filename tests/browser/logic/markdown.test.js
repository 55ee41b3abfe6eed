import assert from 'node:assert/strict';
import {readFileSync} from 'node:fs';
import {test} from 'node:test';

import {parseMarkdown} from '../../../web/markdown.js';
import {parseInline, safeAddress} from '../../../web/markdown_inline.js';
import {blockHtml} from './html.js';

const html = (text) => parseMarkdown(text).map(blockHtml).join('');

// markdown-it-py's answers, see make_markdown_cases.py.
const cases = JSON.parse(
    readFileSync(new URL('markdown_cases.json', import.meta.url)));
for (const {text, html: expected} of cases) {
  test(`as markdown-it: ${JSON.stringify(text)}`,
       () => assert.equal(html(text), expected));
}

test('lists under ordered items may be indented by two spaces', () => {
  assert.equal(html('1. a\n  - b\n2. c'),
               '<ol><li>a<ul><li>b</li></ul></li><li>c</li></ol>');
});

test('a table may follow a line of text', () => {
  assert.equal(html('Here:\n| a | b |\n|---|---|\n| 1 | 2 |'),
               '<p>Here:</p><table><thead><tr><th>a</th><th>b</th></tr>' +
                   '</thead><tbody><tr><td>1</td><td>2</td></tr></tbody>' +
                   '</table>');
});

test('bare addresses are links, without their sentence\'s punctuation', () => {
  assert.equal(html('See https://a.b/c?d=e. (http://x.y)'),
               '<p>See <a href="https://a.b/c?d=e">https://a.b/c?d=e</a>. ' +
                   '(<a href="http://x.y">http://x.y</a>)</p>');
});

test('the title of a link is left out', () => {
  assert.equal(html('[t](https://a.b "title")'),
               '<p><a href="https://a.b">t</a></p>');
});

test('an image is a link with its text', () => {
  assert.equal(html('![alt](https://a.b/c.png)'),
               '<p><a href="https://a.b/c.png">alt</a></p>');
});

test('only http, https and mailto are followed', () => {
  for (const address of [
    'javascript:alert(1)', 'JAVASCRIPT:alert(1)', ' javascript:alert(1)',
    'java\tscript:alert(1)', 'data:text/html,<script>', 'vbscript:x',
    'file:///etc/passwd', '//evil.example', '/stats', '#x', '',
  ]) {
    assert.equal(safeAddress(address), null, address);
    assert.ok(!html(`[x](${address})`).includes('<a'), address);
    assert.ok(!html(`[x](<${address}>)`).includes('<a'), address);
    assert.ok(!html(`<${address}>`).includes('<a'), address);
  }
  assert.equal(safeAddress('HTTPS://a.b'), 'HTTPS://a.b');
});

test('top-level blocks depend on their source alone', () => {
  const text = cases.map(({text}) => text).join('\n\n');
  for (const block of parseMarkdown(text)) {
    assert.equal(html(block.source), blockHtml(block), block.source);
  }
});

// Each is quadratic or worse, or too deep, for a parser that is not careful.
const hostile = {
  'openers': '*a _b '.repeat(40000),
  'closers': 'a*b_ '.repeat(40000),
  'mixed runs': '*'.repeat(1000) + 'a' + '**_'.repeat(60000),
  'brackets': '['.repeat(200000),
  'links half open': '[a]('.repeat(50000),
  'nested images': '!['.repeat(50000) + '](http://a)'.repeat(20000),
  'titles': '[a](b "'.repeat(30000),
  'angles': '<http://'.repeat(30000),
  'addresses': 'https://'.repeat(30000),
  'addresses in a bracket': '[' + 'https://'.repeat(30000),
  'address tail': 'https://a' + ')'.repeat(200000),
  'backtick runs': Array.from({length: 600}, (_, i) => '`'.repeat(i)).join(' '),
  'backticks': '`a``b'.repeat(40000),
  'quotes': '>'.repeat(200000),
  'quotes by line': '>>>>>>>> a\n'.repeat(20000),
  'bullets': '- '.repeat(100000),
  'deep lists':
      Array.from({length: 600}, (_, i) => ' '.repeat(i) + '- a').join('\n'),
  'blank lines in a list': '- a\n' + '\n'.repeat(200000),
  'dashes': '-'.repeat(200000) + 'x',
  'spaced dashes': '- '.repeat(100000) + 'x',
  'spaces': '#' + ' '.repeat(200000) + 'x',
  'trailing spaces': 'a' + ' '.repeat(200000) + 'b\n',
  'hashes': '# ' + '#'.repeat(200000) + 'x',
  'wide table': 'a|'.repeat(50000) + '\n' + '-|'.repeat(50000) + '\n' +
      'x|\n'.repeat(20000),
  'table heads': 'a|b\n-|-|-\n'.repeat(20000),
  'fences': '```\n~~~\n'.repeat(30000),
  'tildes': '~~a'.repeat(60000),
  'escapes': '\\'.repeat(200001),
};
for (const [name, text] of Object.entries(hostile)) {
  test(`a moment for hostile text: ${name}`, () => {
    const start = performance.now();
    const length = html(text).length;
    assert.ok(length > 0);
    assert.ok(performance.now() - start < 2000,
              `${performance.now() - start} ms`);
  });
}

test('any text has a tree, and every address in it is safe', () => {
  const pieces = [
    '*', '**', '_', '~~', '`', '```', '[', ']', '(', ')', '](', '!', '<', '>',
    'http://a', 'javascript:b', '\n', '\n\n', '- ', '1. ', '> ', '|', '|-|-|',
    '#', ' ', '    ', '\t', '\\', 'a', 'é', '\u{1f642}', '\ud83d', '"', '\0',
  ];
  let state = 12345;  // of a linear congruence
  const random = (count) => {
    state = (state * 1103515245 + 12345) % 2147483648;
    return Math.floor(state / 65536) % count;
  };
  for (let i = 0; i < 20000; ++i) {
    let text = '';
    for (let n = random(30); n >= 0; --n) text += pieces[random(pieces.length)];
    for (const [, address] of html(text).matchAll(/href="([^"]*)"/g)) {
      assert.match(address, /^https?:\/\//, text);
    }
  }
});

test('text of a paragraph comes out once and in order', () => {
  const textOf = (nodes) => nodes.map(
      ({text, children}) => text ?? (children ? textOf(children) : '\n'))
      .join('');
  const text = 'a *b **c** `d` ~~e~~ [f](http://g) h* i\nj';
  assert.equal(textOf(parseInline(text)), 'a b c d e f h i\nj');
});
