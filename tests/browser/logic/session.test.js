import assert from 'node:assert/strict';
import {test} from 'node:test';

import {ChatStore} from '../../../web/chat_store.js';
import {Session} from '../../../web/session.js';
import {Storage} from './storage.js';

globalThis.sessionStorage = new Storage();

const event = (content) => 'data: ' + JSON.stringify(
    {choices: [{index: 0, delta: {content}, finish_reason: null}],
     usage: null}) + '\n\n';

test('nothing is shown after stop, though it was read with what was', async () => {
  globalThis.fetch = async () => new Response(event('one') + event('two'));
  const session = new Session(new ChatStore(new Storage()));
  const ended = new Promise((resolve) => {
    session.addEventListener('reply', ({detail: reply}) => {
      if (reply.finish) resolve(reply);
      session.stop();
    });
  });
  session.send('Hello');
  const reply = await ended;
  assert.equal(reply.finish, 'stopped');
  assert.equal(reply.content, 'one');
});
