//! What the address sanitizer is to do in fuzzers of scripts.

/// It keeps no frames of stacks that have ended: an interpreter has a stack of its own, so that
/// memory would grow with each text.
#[unsafe(no_mangle)]
extern "C" fn __asan_default_options() -> *const std::ffi::c_char {
    c"detect_stack_use_after_return=0".as_ptr()
}
