//! What glibc's allocator does with large buffers, set once when an engine is made.
//!
//! By default glibc raises its mmap threshold to the largest buffer that was freed (up to 32 MiB) and keeps twice
//! that at the top of each thread's arena. A few bodies of 16 MiB then leave hundreds of megabytes resident for
//! good (measured: 26 MB before, 455 MB after 40 s of mixed uploads, 411 MB of it not even trimmable). Fixed
//! thresholds give a large buffer back to the system when it is freed.

/// Buffers from this size on are mapped and unmapped one by one. Above what is allocated for most requests, so
/// that those never pay for a system call.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const MMAP_THRESHOLD: i32 = 256 * 1024;
/// An arena keeps at most this much free memory at its top.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const TRIM_THRESHOLD: i32 = 1024 * 1024;

/// Sets the thresholds of this process. Variables that a user set for glibc win.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn give_large_buffers_back() {
    let is_set = |name| std::env::var_os(name).is_some();
    if is_set("GLIBC_TUNABLES") || is_set("MALLOC_MMAP_THRESHOLD_") || is_set("MALLOC_TRIM_THRESHOLD_") {
        return;
    }
    // SAFETY: mallopt takes plain numbers and its own locks; any thread may call it at any time.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MMAP_THRESHOLD);
        libc::mallopt(libc::M_TRIM_THRESHOLD, TRIM_THRESHOLD);
    }
}

/// Other allocators give large buffers back by themselves.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn give_large_buffers_back() {}
