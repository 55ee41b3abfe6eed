import assert from 'node:assert/strict';
import {test} from 'node:test';

import {EventReader} from '../../../web/sse.js';

const stream = ': keepalive 3/9\n\ndata: {"a":1}\n\n' +
    'event: x\r\ndata:one\r\ndata: two\r\n\r\n' +
    'id: 7\n\ndata\n\ndata: [DONE]\n\n';
// By the rules of the HTML standard for event streams.
const events = [
  {comment: 'keepalive 3/9'}, {data: '{"a":1}'}, {data: 'one\ntwo'},
  {data: ''}, {data: '[DONE]'},
];

test('events and comments', () => {
  assert.deepEqual(new EventReader().push(stream), events);
});

test('cut anywhere, they are the same', () => {
  for (let cut = 0; cut <= stream.length; ++cut) {
    const reader = new EventReader();
    assert.deepEqual([
      ...reader.push(stream.slice(0, cut)), ...reader.push(stream.slice(cut)),
    ], events);
  }
  const reader = new EventReader();
  assert.deepEqual([...stream].flatMap((char) => reader.push(char)), events);
});

test('an event that does not end does not come', () => {
  assert.deepEqual(new EventReader().push('data: a\n'), []);
});

test('a long line in short pieces takes a moment', () => {
  const reader = new EventReader();
  const start = performance.now();
  for (let i = 0; i < 300000; ++i) reader.push('data: x');
  assert.equal(reader.push('\n\n')[0].data.length, 300000 * 7 - 6);
  assert.ok(performance.now() - start < 2000);
});
