//! Listings of a queue by label: how many entries have each label.

use std::iter::repeat_n;

use crate::backend::{
    Entry, Listing, Member, Result, Watch,
    sql::{
        outcome::Row,
        replies::{self, nonsense},
    },
};

/// Expands counts into one member for each entry. The entry that made the request comes last, if it
/// still exists.
pub(super) fn listing(
    session: i64,
    dir: &str,
    rows: &[Row],
    watch: Option<Watch>,
) -> Result<Listing> {
    let is_count = |row: &Row| row.text(1).is_none() && row.text(3).is_some();
    let (counts, others): (Vec<Row>, Vec<Row>) = rows.iter().cloned().partition(is_count);
    let mut listing = replies::listing(session, dir, &others, false, watch)?;
    listing.labels_only = true;
    let own = std::mem::take(&mut listing.members);
    // The sessions of these entries do not matter.
    let entry = Entry::new(dir, 0);
    for row in counts {
        let count = row.number(4).and_then(|count| usize::try_from(count).ok());
        let count = count.ok_or_else(nonsense)?;
        let member =
            Member { entry: entry.clone(), label: row.text(3).map(Into::into), detail: None };
        listing.members.extend(repeat_n(member, count));
    }
    listing.members.extend(own);
    Ok(listing)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row<const N: usize>(cells: [&str; N]) -> Row {
        Row::new(cells.map(|cell| (!cell.is_empty()).then(|| cell.to_owned())).to_vec())
    }

    #[test]
    fn repeated_labels_are_counted() {
        let rows = [
            row(["", "", "", "1of9", "2"]),
            row(["7", "", "", "2of9", "1"]),
            row(["", "", "", "1of9", "1"]),
            row(["8", "1f", "ticket", "3of9"]),
            row(["", "", "", "", "", "", "", "", "limit=5+@1"]),
        ];
        let listing = listing(31, "/dir", &rows, None).expect("a listing");
        let labels: Vec<_> = listing.members.iter().map(|member| member.label.as_deref()).collect();
        assert_eq!(labels, ["1of9", "1of9", "2of9", "1of9", "3of9"].map(Some));
        assert_eq!(listing.members[4].entry.revision, 8);
        assert_eq!(listing.notes.iter().map(|note| &**note).collect::<Vec<_>>(), ["limit=5+@1"]);
    }
}
