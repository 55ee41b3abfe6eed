import assert from 'node:assert/strict';
import {test} from 'node:test';

import {addChunk, chatRequest, closeFigures, newReply, openCalls}
    from '../../../web/reply.js';

const chunk = (delta, finish_reason = null) =>
    ({choices: [{index: 0, delta, finish_reason}], usage: null});

test('a reply is the sum of its chunks', () => {
  const reply = newReply();
  addChunk(reply, chunk({role: 'assistant', content: ''}), 0.1);
  addChunk(reply, chunk({reasoning_content: 'Hm', reasoning: 'Hm'}), 0.5);
  addChunk(reply, chunk({reasoning: '.'}), 1);
  addChunk(reply, chunk({content: 'Good'}), 2);
  addChunk(reply, chunk({content: ' day'}), 2.5);
  addChunk(reply, chunk({}, 'stop'), 2.6);
  addChunk(reply, {choices: [], usage: {
    prompt_tokens: 7, completion_tokens: 5,
    prompt_tokens_details: {cached_tokens: 3},
  }}, 2.6);
  closeFigures(reply);
  assert.deepEqual(reply, {
    role: 'assistant', reasoning: 'Hm.', content: 'Good day', finish: 'stop',
    figures: {
      promptTokens: 7, cachedTokens: 3, tokens: 5, firstToken: 0.5,
      thought: 0.5, tps: 2,  // four more tokens in two seconds
    },
  });
});

test('calls are joined by their index', () => {
  const reply = newReply();
  const call = (index, fields) => chunk({tool_calls: [{index, ...fields}]});
  const named = (id, name) =>
      ({id, type: 'function', function: {name, arguments: ''}});
  addChunk(reply, call(0, named('a', 'f')), 1);
  addChunk(reply, call(0, {function: {arguments: '{"x":'}}), 1);
  addChunk(reply, call(0, {function: {arguments: '1}'}}), 1);
  addChunk(reply, call(1, named('b', 'g')), 1);
  addChunk(reply, call(1, {function: {arguments: '{}'}}), 1);
  assert.deepEqual(reply.calls, [
    {id: 'a', name: 'f', arguments: '{"x":1}'},
    {id: 'b', name: 'g', arguments: '{}'},
  ]);
});

test('a request has the messages and what is set', () => {
  const body = chatRequest(
      [
        {role: 'user', content: 'hi'},
        {...newReply(), calls: [{id: 'a', name: 'f', arguments: '{}'}]},
        {role: 'tool', content: '4', callId: 'a', name: 'f'},
        newReply(),  // failed before its first token
        {role: 'user', content: 'go on'},
      ],
      {system: 'Be brief.', temperature: 0, top_k: 5, enable_thinking: false},
      'some/model');
  assert.deepEqual(body, {
    model: 'some/model',
    messages: [
      {role: 'system', content: 'Be brief.'},
      {role: 'user', content: 'hi'},
      {role: 'assistant', content: '', tool_calls: [{
        id: 'a', type: 'function', function: {name: 'f', arguments: '{}'},
      }]},
      {role: 'tool', content: '4', tool_call_id: 'a'},
      {role: 'user', content: 'go on'},
    ],
    stream: true, stream_options: {include_usage: true},
    temperature: 0, top_k: 5, chat_template_kwargs: {enable_thinking: false},
  });
});

test('nothing is sent that is not set', () => {
  const body = chatRequest([{role: 'user', content: 'hi'}], {}, '');
  assert.deepEqual(JSON.parse(JSON.stringify(body)), {
    messages: [{role: 'user', content: 'hi'}],
    stream: true, stream_options: {include_usage: true},
  });
});

test('calls are open until each has a result', () => {
  const calls = [{id: 'a', name: 'f'}, {id: 'b', name: 'g'}];
  const asked = [{role: 'user', content: ''}, {...newReply(), calls}];
  const result = (callId) => ({role: 'tool', content: '', callId});
  assert.deepEqual(openCalls([]), []);
  assert.deepEqual(openCalls(asked), calls);
  assert.deepEqual(openCalls([...asked, result('a')]), [calls[1]]);
  assert.deepEqual(openCalls([...asked, result('a'), result('b')]), []);
  assert.deepEqual(openCalls([...asked, {role: 'user', content: ''}]), []);
});
