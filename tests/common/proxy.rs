//! A TCP proxy with faults.
