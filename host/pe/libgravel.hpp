// What backends, and the templates of the host API, call of the runtime in libgravel.
#pragma once
#include <memory>

namespace gravel {

class backend;

/// Joins the job; the rest of gravel_init.
void start(std::unique_ptr<backend> device);
backend& current_backend();
/// Says it on stderr, if GRAVEL_LOG allows.
void warn(const char* text);

}  // namespace gravel
