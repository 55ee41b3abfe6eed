// Runs a load against a server.
#pragma once

#include "serve/figures.h"
#include "serve/load_plan.h"
#include "serve/process_watch.h"

namespace quern {

// Returns when the last call has ended. `server`, which may be null, is looked
// at each second of the window: after the warm-up, while new calls are made.
// Throws Error if options.host is not an IPv4 address or a name of one.
Figures run_load(const LoadOptions& options, ProcessWatch* server);

// Whether GET /health is answered with 200 within `seconds`.
bool wait_ready(const LoadOptions& options, double seconds);

}  // namespace quern
