use super::*;

#[test]
fn checks_of_several_locks_are_one_query() {
    let check = |number: i64| SqlCheck {
        dialect: SqlDialect::Postgres,
        text: "SELECT 1 FROM e WHERE q = $1 AND n = $2 FOR KEY SHARE".into(),
        parameters: vec![SqlParameter::Text("q".into()), SqlParameter::Integer(number)],
    };
    let all = SqlCheck::all(vec![check(7), check(8)]).expect("of one database");
    assert_eq!(
        all.text(),
        "SELECT 1 WHERE EXISTS (SELECT 1 FROM e WHERE q = $1 AND n = $2 FOR KEY SHARE) \
         AND EXISTS (SELECT 1 FROM e WHERE q = $3 AND n = $4 FOR KEY SHARE)"
    );
    assert_eq!(all.parameters()[1], SqlParameter::Integer(7));
    assert_eq!(all.parameters()[3], SqlParameter::Integer(8));
    let mysql = |number: i64| SqlCheck {
        dialect: SqlDialect::Mysql,
        text: format!("SELECT 1 FROM e WHERE n = {number} LOCK IN SHARE MODE").into(),
        parameters: Vec::new(),
    };
    let all = SqlCheck::all(vec![mysql(7), mysql(8)]).expect("of one database");
    assert_eq!(
        all.text(),
        "SELECT 1 FROM (SELECT 1 FROM e WHERE n = 7 LOCK IN SHARE MODE) AS lock_0, \
         (SELECT 1 FROM e WHERE n = 8 LOCK IN SHARE MODE) AS lock_1"
    );
    let other = SqlCheck { dialect: SqlDialect::Sqlite, ..check(9) };
    assert_eq!(SqlCheck::all(vec![check(7), other]), None);
    assert_eq!(SqlCheck::all(Vec::new()), None);
}

#[test]
fn guards_of_other_stores_are_refused_with_advice() {
    let refused = |store, asked| {
        let error = CheckError::<fmt::Error>::OtherStore { name: "a".into(), store, asked };
        error.to_string()
    };
    assert_eq!(
        refused(StoreKind::Mysql, SqlDialect::Sqlite),
        "the lock \"a\" is stored on MySQL: a transaction on SQLite cannot check or release \
         it; use a transaction in the database of the lock"
    );
    // The dialect may be unknown.
    assert_eq!(
        refused(StoreKind::Etcd, SqlDialect::Postgres),
        "the lock \"a\" is stored on etcd: no SQL transaction can check or release it; compare \
         fencing tokens instead"
    );
}
