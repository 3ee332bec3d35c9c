//! What users do in transactions of their own.

use crate::{
    common::{postgres::Postgres, transaction_cases},
    postgres::tables::Own,
};

transaction_cases! { Postgres, Own }
