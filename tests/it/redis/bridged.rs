//! With a bridge to others' locks, of whom there are none, mutexes pass the cases that every store
//! passes.

use crate::common::{mutex_cases, mutex_network_cases, redis::Bridged};

mutex_cases! { cases_for { Bridged, beside_others, } }
mutex_network_cases! { cases_for { Bridged, beside_others, } }
