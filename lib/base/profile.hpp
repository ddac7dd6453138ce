// Named ranges and threads for profilers, through NVTX (Nsight Systems and others), in the domain "gravel". Without a
// profiler a range costs a call and a comparison. If NVTX's headers were missing when Gravel was built, there are no
// ranges. Programs need no NVTX: only this library's source files use it.
#pragma once

namespace gravel::detail {

/// Names this thread for profilers, debuggers and top -H. At most 15 characters.
void name_this_thread(const char* name);

/// A range in this thread, from begin() to the end of the object. `name` must outlive it.
class profile_range {
 public:
  profile_range() = default;
  explicit profile_range(const char* name) { begin(name); }
  ~profile_range() {
    if (pushed_) pop();
  }
  profile_range(const profile_range&) = delete;
  profile_range& operator=(const profile_range&) = delete;

  /// Begins the range; only the first call has an effect. A round that finds out late whether there is anything to do
  /// calls it then.
  void begin(const char* name) {
    if (!begun_) pushed_ = push(name);
    begun_ = true;
  }

 private:
  static bool push(const char* name);
  static void pop();
  bool begun_ = false, pushed_ = false;
};

/// One range for a sequence of polls that find nothing, in a thread that polls. Any other range of the thread ends it.
/// At most one in a thread.
class profile_wait {
 public:
  ~profile_wait() { end(); }
  /// To be called after a poll that found nothing. `name`: what the thread waits for; may change.
  void in_vain(const char* name) {
    constexpr unsigned too_short = 32;  // fewer rounds are not worth a range
    if (rounds_ < too_short) ++rounds_;
    else begin(name);
  }
  void end() {
    if (rounds_) end_if_begun();
    rounds_ = 0;
  }

 private:
  static void begin(const char* name);
  static void end_if_begun();
  unsigned rounds_ = 0;
};

}  // namespace gravel::detail
