//! Users' own transactions.

use super::place::Own;
use crate::common::{postgres::Postgres, transaction_cases};

transaction_cases! { Postgres, Own }
