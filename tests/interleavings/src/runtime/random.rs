//! No randomness: repeating a schedule repeats its effects.

use std::cell::Cell;

std::thread_local! {
    static NEXT: Cell<u128> = const { Cell::new(0) };
}

pub(crate) fn fraction() -> f64 {
    0.5
}

pub(crate) fn below(_: usize) -> usize {
    0
}

pub(crate) fn bits() -> [u8; 16] {
    let next = NEXT.get() + 1;
    NEXT.set(next);
    next.to_be_bytes()
}

pub(crate) fn id() -> i64 {
    let next = NEXT.get() + 1;
    NEXT.set(next);
    i64::try_from(next).expect("few are drawn")
}
