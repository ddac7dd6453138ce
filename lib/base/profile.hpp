// What a profiler shows of Gravel: named ranges and threads, through NVTX (Nsight Systems and others), in the domain
// "gravel". Without a profiler a range costs a call and a comparison, and where NVTX's headers were missing as Gravel
// was built, there are none. Programs need no NVTX: it is behind these functions.
#pragma once

namespace gravel::detail {

/// For profilers, debuggers and top -H. At most 15 characters.
void name_this_thread(const char* name);

/// From its beginning to the end of the object, in this thread. `name` must outlive it.
class profile_range {
 public:
  profile_range() = default;
  explicit profile_range(const char* name) { begin(name); }
  ~profile_range() {
    if (pushed_) pop();
  }
  profile_range(const profile_range&) = delete;
  profile_range& operator=(const profile_range&) = delete;

  /// The first call counts: for rounds of which it turns out later whether there is anything to do.
  void begin(const char* name) {
    if (!begun_) pushed_ = push(name);
    begun_ = true;
  }

 private:
  static bool push(const char* name);
  static void pop();
  bool begun_ = false, pushed_ = false;
};

/// One range for all the rounds in vain of a thread that polls. Any other range of the thread ends it. At most one in a
/// thread.
class profile_wait {
 public:
  ~profile_wait() { end(); }
  /// `name`: what it waits for; may change.
  void in_vain(const char* name) {
    constexpr unsigned too_short = 32;  // rounds that are not worth a range
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
