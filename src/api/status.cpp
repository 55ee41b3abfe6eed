// /health and /stats
#include <algorithm>

#include "api/endpoints.h"
#include "api/error.h"

namespace quern {
namespace {

Json model_json(const ServedModel& served, const EngineStats& stats) {
  const ModelFacts& facts = served.model->facts();
  return {{"id", served.id},
          {"type", facts.type},
          {"vocabulary", facts.vocabulary},
          {"layers", facts.layers},
          {"context", stats.context},
          {"trained_context", facts.context},
          {"weight_bytes", facts.weight_bytes},
          {"step_bytes", facts.step_bytes}};
}

Json stats_json(const ServedModel& served) {
  const EngineStats s = served.engine->stats();
  const auto finished = [&](Finish how) { return s.finished[int(how)]; };
  return {{"server",
           {{"owner", "serve"},
            {"model", served.id},
            {"started_at", served.created}}},
          {"model", model_json(served, s)},
          {"kv_quant",
           {{"layers", counts_of(served.kv_layers)},
            {"by_layer", served.kv_layers}}},
          {"admission",
           {{"max_safe_context", served.engine->longest_row()},
            {"memory_budget_bytes", s.budget_bytes},
            {"usable_bytes",
             s.budget_bytes - std::min(s.budget_bytes, s.weight_bytes)},
            {"weights_bytes", s.weight_bytes}}},
          {"batch",
           {{"layout", name_of(s.layout)},
            {"configured", s.places},
            {"active_rows", s.rows},
            {"joining_rows", s.joining},
            {"pending_rows", s.queued},
            {"submitted_rows", s.requests},
            {"pauses", s.pauses},
            {"kv_bytes", s.kv_bytes},
            {"kv_reserved_bytes", s.kv_reserved_bytes},
            {"kv_budget_bytes", s.kv_budget_bytes}}},
          {"requests",
           {{"stopped", finished(Finish::stop)},
            {"length", finished(Finish::length)},
            {"cancelled", finished(Finish::cancelled)},
            {"failed", finished(Finish::failed)},
            {"refused", s.refused}}},
          {"throughput",
           {{"prompt_tokens", s.prompt_tokens},
            {"generated_tokens", s.generated_tokens},
            {"steps", s.steps},
            {"decode_tps", s.decode_tps},
            {"prefill_tps", s.prefill_tps}}}};
}

}  // namespace

ApiOutcome health(Service& service, const ApiRequest&) {
  if (!service.model()) {
    return ApiReply{.status = 503, .body = R"({"status": "loading"})"};
  }
  return ApiReply{.body = R"({"status": "ok"})"};
}

ApiOutcome stats(Service& service, const ApiRequest&) {
  return answer_or_error(
      [&] { return json_reply(stats_json(*service.ready())); });
}

}  // namespace quern
