//! The one session of PostgreSQL as the session of each connection in turn.

use std::{collections::HashMap, io, net::Shutdown, time::Duration};

use crate::{
    Server,
    client::welcome,
    frames::{error, message, query, texts},
    server::OPERATOR,
    text::{identifier, literal},
};

impl Server {
    pub(crate) fn log_in(&mut self, number: u64, password: &str) -> io::Result<()> {
        let Some(client) = self.clients.get(&number) else { return Ok(()) };
        let (user, parameters) = (client.user.clone(), client.parameters.clone());
        if user == OPERATOR && password != OPERATOR || !self.may_log_in(&user)? {
            let text = format!("password authentication failed for user \"{user}\"");
            self.reply(number, &error("28P01", &text, true));
            return self.end(number);
        }
        let settings = self.first_settings(&user, &parameters)?;
        if let Some(client) = self.clients.get_mut(&number) {
            client.settings = settings;
        }
        self.read_settings(number)?;
        self.reply(number, &welcome(number));
        Ok(())
    }

    fn may_log_in(&mut self, user: &str) -> io::Result<bool> {
        let sql =
            format!("SELECT 1 FROM pg_roles WHERE rolname = {} AND rolcanlogin", literal(user));
        Ok(!self.apart(&sql)?.is_empty())
    }

    /// The settings of the database and the role, and then those of the connection.
    fn first_settings(
        &mut self,
        user: &str,
        parameters: &HashMap<String, String>,
    ) -> io::Result<Vec<(String, String)>> {
        let stored = format!(
            "SELECT unnest(setconfig) FROM pg_db_role_setting LEFT JOIN pg_roles AS r ON r.oid = \
             setrole WHERE (setrole = 0 OR rolname = {}) AND (setdatabase = 0 OR setdatabase = \
             (SELECT oid FROM pg_database WHERE datname = current_database())) \
             ORDER BY setrole, setdatabase",
            literal(user)
        );
        let mut settings = Vec::new();
        for row in self.apart(&stored)? {
            settings.extend(pair(&row[0]));
        }
        for (name, value) in parameters {
            if !matches!(name.as_str(), "user" | "database" | "replication" | "options") {
                settings.push((name.clone(), value.clone()));
            }
        }
        let options = parameters.get("options").map_or("", String::as_str);
        for option in options.split_whitespace() {
            let option = option.trim_start_matches("-c").trim_start_matches("--");
            settings.extend(pair(option));
        }
        Ok(settings)
    }

    /// Runs the server's own statements, which are no part of an open transaction.
    fn apart(&mut self, sql: &str) -> io::Result<Vec<Vec<String>>> {
        if self.pooled && self.current.is_some() {
            return self.database.ask(sql);
        }
        self.current = None;
        self.database.ask(&format!("SET SESSION AUTHORIZATION postgres; RESET ALL; {sql}"))
    }

    /// Gives the session the settings of a connection.
    pub(crate) fn switch_to(&mut self, number: u64) -> io::Result<()> {
        if self.current == Some(number) || self.pooled && self.current.is_some() {
            return Ok(());
        }
        let Some(client) = self.clients.get(&number) else { return Ok(()) };
        let mut sql = "SET SESSION AUTHORIZATION postgres; RESET ALL;".to_owned();
        sql += &format!("SET embedded.connection = {number};");
        if !self.started.is_empty() {
            sql += &format!("SET embedded.started = '{}';", self.started);
        }
        if self.clock != 0 {
            sql += &format!("SET embedded.clock = '{} s';", self.clock);
        }
        if !client.settings.is_empty() {
            let set = |(name, value): &(String, String)| {
                format!("set_config({}, {}, false)", literal(name), literal(value))
            };
            let settings: Vec<_> = client.settings.iter().map(set).collect();
            sql += &format!("SELECT {};", settings.join(", "));
        }
        if client.user != OPERATOR {
            sql += &format!("SET SESSION AUTHORIZATION {};", identifier(&client.user));
        }
        if !matches!(client.role.as_str(), "" | "none") {
            sql += &format!("SET ROLE {};", identifier(&client.role));
        }
        self.database.ask(&sql)?;
        self.current = Some(number);
        Ok(())
    }

    /// Reads the settings that the connection has now.
    pub(crate) fn read_settings(&mut self, number: u64) -> io::Result<()> {
        self.switch_to(number)?;
        let rows = self.database.ask(
            "SELECT name, current_setting(name) FROM pg_settings WHERE source = 'session' \
             AND context IN ('user', 'superuser') AND name <> 'role' \
             AND NOT starts_with(name, 'transaction_') \
             UNION ALL SELECT name, current_setting(name) FROM unnest(ARRAY[ \
             'distlock.connection', 'distlock.polls']) AS name \
             WHERE current_setting(name, true) <> '' \
             UNION ALL SELECT 'limit ' || name, setting FROM pg_settings \
             WHERE name IN ('idle_session_timeout', 'lock_timeout', 'statement_timeout') \
             UNION ALL SELECT 'role', current_setting('role')",
        )?;
        let Some(client) = self.clients.get_mut(&number) else { return Ok(()) };
        client.sets = false;
        client.settings.clear();
        for [name, value] in rows.into_iter().filter_map(|row| <[String; 2]>::try_from(row).ok()) {
            let limit = || value.parse().ok().filter(|time| *time > 0).map(Duration::from_millis);
            match name.as_str() {
                "session_authorization" => {}
                "role" => client.role = value,
                "limit lock_timeout" => client.limits.lock = limit(),
                "limit statement_timeout" => client.limits.statement = limit(),
                "limit idle_session_timeout" => client.limits.idle = limit(),
                _ => client.settings.push((name, value)),
            }
        }
        Ok(())
    }

    /// Removes what a connection leaves in the session.
    pub(crate) fn end(&mut self, number: u64) -> io::Result<()> {
        let Some(client) = self.clients.remove(&number) else { return Ok(()) };
        let _gone = client.stream.shutdown(Shutdown::Both);
        if self.open == Some(number) {
            self.open = None;
            self.database.ask("ROLLBACK")?;
        }
        let others =
            |channel: &String| self.clients.values().any(|other| other.channels.contains(channel));
        let mut leaves = Vec::new();
        for channel in client.channels.iter().filter(|channel| !others(channel)) {
            leaves.extend(query(&format!("UNLISTEN {}", identifier(channel))));
        }
        for name in client.prepared.keys().filter(|name| !name.is_empty()) {
            leaves.extend(message(b'C', &[b"S", &texts(&[name])[..]].concat()));
        }
        leaves.extend(message(b'S', b""));
        if self.current == Some(number) {
            self.current = None;
        }
        self.database.send(&leaves)?;
        Ok(())
    }
}

fn pair(setting: &str) -> Option<(String, String)> {
    let (name, value) = setting.split_once('=')?;
    Some((name.to_owned(), value.to_owned()))
}
