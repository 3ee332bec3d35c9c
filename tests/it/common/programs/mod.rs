//! Random programs: sequences of calls of the public API, of which a [model] says what each comes
//! to. On every store it has to come to that.
//!
//! [model]: model::Model

mod call;
mod drive;
mod model;
mod shrink;

pub(crate) use self::{call::program, drive::run, shrink::shrunk};
