//! Random programs: sequences of calls of the public API. A [model] computes the outcome of each
//! call, which every store has to produce.

mod call;
mod drive;
mod model;
mod shrink;

pub(crate) use self::{call::program, drive::run, shrink::shrunk};
