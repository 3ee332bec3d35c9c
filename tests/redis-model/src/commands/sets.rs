//! Sets. distlock uses none: a key of this type is none that it can lock.

use std::collections::BTreeSet;

use super::Args;
use crate::{
    keys::Value,
    reply::Reply,
    state::{State, WRONG_TYPE},
};

pub(super) fn sadd(state: &mut State, _: u64, args: Args<'_>) -> Reply {
    match state.value_mut(&args[1], Value::Set(BTreeSet::new())) {
        Value::Set(members) => {
            let added = args[2..].iter().filter(|member| members.insert((*member).clone()));
            Reply::count(added.count())
        }
        _ => Reply::error(WRONG_TYPE),
    }
}
