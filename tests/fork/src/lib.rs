//! `fork(2)` for tests, which the standard library does not have: the only unsafe code of the
//! repository.

#![cfg(unix)]

use std::{ffi::c_int, io};

unsafe extern "C" {
    fn fork() -> c_int;
    fn waitpid(process: c_int, status: *mut c_int, options: c_int) -> c_int;
}

/// Where the program goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fork {
    /// In the child, which has this thread alone.
    Child,
    /// In the parent of a child of this number.
    Parent(i32),
}

/// Forks this process.
///
/// # Errors
///
/// The operating system's.
pub fn split() -> io::Result<Fork> {
    // SAFETY: it takes nothing. The C library keeps its allocator usable in the child, and what
    // other locks the child may find taken is what its tests are about.
    match unsafe { fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Fork::Child),
        child => Ok(Fork::Parent(child)),
    }
}

/// Whether a child has ended; without `wait` it looks and does not wait.
///
/// # Errors
///
/// The operating system's, as if there is no such child.
pub fn has_ended(child: i32, wait: bool) -> io::Result<bool> {
    const WNOHANG: c_int = 1;
    let mut status = 0;
    // SAFETY: the status is a place to write to, for as long as the call takes.
    match unsafe { waitpid(child, &raw mut status, if wait { 0 } else { WNOHANG }) } {
        -1 => Err(io::Error::last_os_error()),
        ended => Ok(ended == child),
    }
}
