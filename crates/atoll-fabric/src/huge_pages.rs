//! A hint to the kernel that memory will be touched all over.

/// Asks for huge pages under `items`, for as long as they are allocated. Where a table of many
/// megabytes is accessed at random, the processor would otherwise wait for page tables as often as
/// for bytes.
///
/// It is best effort, and useful only before the first touch. It affects only time and how much
/// untouched memory is resident. Without such a call in the kernel it does nothing.
pub fn prefer_huge_pages<T>(items: &mut [T]) {
    #[cfg(target_os = "linux")]
    {
        const PAGE_BYTES: usize = 4096;
        let span = items.as_mut_ptr_range();
        let (first, end) =
            ((span.start as usize).next_multiple_of(PAGE_BYTES), span.end as usize / PAGE_BYTES * PAGE_BYTES);
        let Some(bytes) = end.checked_sub(first).filter(|bytes| *bytes > 0) else { return };
        let page = span.start.cast::<u8>().wrapping_add(first - span.start as usize);
        // SAFETY: whole pages of memory that we may write to, all within `items`; the advice
        // changes no byte of them.
        unsafe { libc::madvise(page.cast::<libc::c_void>(), bytes, libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = items;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_stay_what_they_are() {
        for words in [0, 1, 511, 513, 1 << 20] {
            let mut memory: Vec<u64> = (0..words).collect();
            prefer_huge_pages(&mut memory);
            assert!(memory.into_iter().eq(0..words));
        }
    }
}
