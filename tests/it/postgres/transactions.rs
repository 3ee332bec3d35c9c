//! What users do in transactions of their own.

use crate::{
    common::{cases_for, database_cases, postgres::Postgres},
    postgres::tables::Own,
};

cases_for! { Postgres, beside_others,
    checked::writes_of_one_who_was_stopped_are_refused_though_nobody_came,
    checked::a_session_that_is_over_by_the_clock_does_not_do,
    checked::every_guard_can_be_checked,
    checked::a_transaction_that_has_checked_keeps_the_lock_until_it_ends,
    checked::a_transaction_that_has_checked_keeps_the_entry,
    checked::one_query_checks_several_locks,
    checked::guards_of_other_stores_are_refused_by_name,
}

database_cases! { Own,
    rows::versions_lose_nothing,
    rows::the_page_on_row_locks_tells_the_truth,
}

// The example is built with SQLite.
#[cfg(feature = "sqlite")]
database_cases! { Own, accounts::money_is_lost_without_the_check_alone }
