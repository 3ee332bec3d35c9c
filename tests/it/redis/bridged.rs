//! With a bridge and no foreign locks, mutexes pass the cases of every store.

use crate::common::{mutex_cases, mutex_network_cases, redis::Bridged};

mutex_cases! { cases_for { Bridged, beside_others, } }
mutex_network_cases! { cases_for { Bridged, beside_others, } }
