//! Users' own transactions.

use crate::{
    common::{postgres::Postgres, transaction_cases},
    postgres::tables::Own,
};

transaction_cases! { Postgres, Own }
