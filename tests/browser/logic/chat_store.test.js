import assert from 'node:assert/strict';
import {test} from 'node:test';

import {ChatStore} from '../../../web/chat_store.js';
import {Storage} from './storage.js';

let clock = 0;
function chatOf(store, content = 'hi') {
  const chat = store.create();
  chat.title = content.slice(0, 5);
  chat.updated = ++clock;
  chat.messages.push({role: 'user', content});
  return chat;
}

test('chats outlive the page, newest first', () => {
  const storage = new Storage();
  const store = new ChatStore(storage);
  const [a, b] = [chatOf(store), chatOf(store)];
  assert.ok(store.save(a) && store.save(b));
  const again = new ChatStore(storage);
  assert.deepEqual(again.list(), [b, a]);
  assert.deepEqual(again.get(a.id), a);
  again.remove(b.id);
  assert.deepEqual(new ChatStore(storage).list(), [a]);
});

test('the oldest make room', () => {
  const storage = new Storage();
  const store = new ChatStore(storage);
  for (let i = 0; i < 60; ++i) store.save(chatOf(store, `chat ${i}`));
  assert.equal(store.list().length, 50);
  assert.equal(store.list().at(-1).messages[0].content, 'chat 10');
  assert.equal(storage.length, 50);
});

test('so many characters, no more', () => {
  const storage = new Storage();
  const store = new ChatStore(storage);
  for (let i = 0; i < 8; ++i) store.save(chatOf(store, 'x'.repeat(1 << 20)));
  assert.ok(storage.chars <= 4 << 20);
  assert.equal(store.list().length, 3);
});

test('a full storage drops old chats, then says no and keeps the chat', () => {
  const storage = new Storage(1500);
  const store = new ChatStore(storage);
  for (let i = 0; i < 4; ++i) {
    assert.ok(store.save(chatOf(store, 'x'.repeat(400))));
  }
  assert.equal(store.list().length, 2);
  const large = chatOf(store, 'x'.repeat(2000));
  assert.equal(store.save(large), false);
  assert.deepEqual(store.list(), [large]);
});

test('what others wrote is no chat', () => {
  const storage = new Storage();
  const message = {role: 'user', content: 'x'};
  const chat = {id: 'a', title: '', updated: 1, messages: [message]};
  const wrong = [
    '', '{', 'null', '[]', '{"id":"a"}',
    JSON.stringify({...chat, id: 'b'}),
    JSON.stringify({...chat, updated: 'x'}),
    JSON.stringify({...chat, messages: [{role: 'evil', content: ''}]}),
    JSON.stringify({...chat, messages: [{role: 'user', content: 5}]}),
    JSON.stringify({...chat, messages: [{role: 'assistant', content: ''}]}),
  ];
  storage.setItem('other', '{}');
  for (const text of wrong) {
    storage.setItem('quern.chat.a', text);
    assert.deepEqual(new ChatStore(storage).list(), [], text);
  }
  storage.setItem('quern.chat.a', JSON.stringify(chat));
  const store = new ChatStore(storage);
  assert.deepEqual(store.list(), [chat]);
  storage.removeItem('quern.chat.a');
  store.reload('quern.chat.a');
  assert.deepEqual(store.list(), []);
});
