// The figures of /stats that the panel shows. What the server does not send is
// undefined, and its line is left out.

export function readStats({server, model, kv_quant, admission, batch, requests,
                           throughput}) {
  const {refused, ...ended} = requests ?? {};
  const finished = requests &&
      Object.values(ended).reduce((sum, count) => sum + count, 0);
  return {
    decodeTps: throughput?.decode_tps,
    prefillTps: throughput?.prefill_tps,
    promptTokens: throughput?.prompt_tokens,
    generatedTokens: throughput?.generated_tokens,
    rows: batch?.active_rows,
    joining: batch?.joining_rows,
    queued: batch?.pending_rows,
    places: batch?.configured,
    kvBytes: batch?.kv_bytes,
    kvReservedBytes: batch?.kv_reserved_bytes,
    kvBudgetBytes: batch?.kv_budget_bytes,
    weightBytes: model?.weight_bytes ?? admission?.weights_bytes,
    finished,
    context: model?.context,
    longest: admission?.max_safe_context,
    type: model?.type,
    layers: model?.layers,
    vocabulary: model?.vocabulary,
    kvSchemes: kv_quant?.layers,
    startedAt: server?.started_at,  // seconds since 1970
  };
}
