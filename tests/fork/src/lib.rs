//! `fork(2)` for tests, which the standard library lacks: the repository's only unsafe code.

#![cfg(unix)]

use std::{
    ffi::c_int,
    io,
    process::Command,
    thread,
    time::{Duration, Instant},
};

unsafe extern "C" {
    fn fork() -> c_int;
    fn waitpid(process: c_int, status: *mut c_int, options: c_int) -> c_int;
}

/// The process in which the program continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fork {
    /// The child, which has only this thread.
    Child,
    /// The parent, with the child's process id.
    Parent(i32),
}

/// Forks this process.
///
/// # Errors
///
/// Fails if the operating system cannot fork.
pub fn split() -> io::Result<Fork> {
    // SAFETY: it takes no arguments. The C library keeps its allocator usable in the child, and the
    // child's tests are about other locks that may be locked.
    match unsafe { fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Fork::Child),
        child => Ok(Fork::Parent(child)),
    }
}

/// Returns `true` if a child has ended; waits for that if `wait` is set.
///
/// # Errors
///
/// Fails if the operating system reports an error, for example that there is no such child.
pub fn has_ended(child: i32, wait: bool) -> io::Result<bool> {
    const WNOHANG: c_int = 1;
    let mut status = 0;
    // SAFETY: the status is writable for the duration of the call.
    match unsafe { waitpid(child, &raw mut status, if wait { 0 } else { WNOHANG }) } {
        -1 => Err(io::Error::last_os_error()),
        ended => Ok(ended == child),
    }
}

/// Waits for the end of a child. Kills a child that takes longer, and returns `false`.
///
/// # Errors
///
/// Fails as [`has_ended`] does, or if the program `kill` cannot run.
pub fn ends_within(child: i32, limit: Duration) -> io::Result<bool> {
    let until = Instant::now() + limit;
    while Instant::now() < until {
        if has_ended(child, false)? {
            return Ok(true);
        }
        thread::sleep(Duration::from_millis(5));
    }
    Command::new("kill").args(["-9", &child.to_string()]).status()?;
    has_ended(child, true)?;
    Ok(false)
}
