//! Large columns on large pages.
//!
//! Columns of a step take hundreds of megabytes. On pages of 4 KiB, the kernel spends as long on faults as a kernel here spends on the
//! work; numpy asks for large pages where it allocates, and so does this.

use std::alloc::{GlobalAlloc, Layout, System};

use rustix::mm::{madvise, Advice};

/// Below it, as in numpy, the start of a page costs more than it saves.
const LARGE_BYTES: usize = 4 << 20;
const PAGE_BYTES: usize = 4096;

/// The system's allocator, with advice on what is large.
pub(crate) struct LargePages;

#[allow(
    unsafe_code,
    reason = "an allocator is unsafe to write; this one forwards every call and adds advice that changes no content"
)]
mod forward {
    use super::*;

    // SAFETY: every call goes to `System` as it came, and every answer comes from there.
    unsafe impl GlobalAlloc for LargePages {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            advised(System.alloc(layout), layout.size())
        }

        unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
            advised(System.alloc_zeroed(layout), layout.size())
        }

        unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
            advised(System.realloc(pointer, layout, size), size)
        }

        unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
            System.dealloc(pointer, layout);
        }
    }

    /// Asks for large pages. A kernel without them refuses, which is fine.
    ///
    /// The page that the allocation begins in is asked for with it: a mapping of which a part has another advice is two to the kernel,
    /// which then cannot grow it in place, and growing would copy all.
    fn advised(pointer: *mut u8, size: usize) -> *mut u8 {
        if size >= LARGE_BYTES && !pointer.is_null() {
            let before = pointer.addr() % PAGE_BYTES;
            // SAFETY: every page of the range holds a byte of an allocation that the caller is about to own, so all are mapped; the
            // advice changes no byte of them.
            let _ = unsafe { madvise(pointer.wrapping_sub(before).cast(), size + before, Advice::LinuxHugepage) };
        }
        pointer
    }
}
