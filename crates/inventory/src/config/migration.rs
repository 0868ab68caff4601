//! The table `[migration]`.

use std::net::SocketAddr;

use super::error::{ConfigError, Source};
use super::file::MigrationTable;
use crate::inventory::read_keys;
use crate::spec::MigrationSpec;

/// Converts and checks the table.
pub(super) fn spec(
    source: &Source<'_>,
    table: &MigrationTable,
) -> Result<MigrationSpec, ConfigError> {
    let listen = address(table.listen.get_ref());
    let listen = listen.map_err(|sentence| source.at(table.listen.span(), &sentence))?;
    let keys = read_keys(table.key.get_ref());
    let keys = keys.map_err(|refusal| source.at(table.key.span(), &refusal.to_string()))?;
    Ok(MigrationSpec { listen, keys })
}

/// Parses the address. It is given to other daemons, so it has to be one that they can reach.
fn address(text: &str) -> Result<SocketAddr, String> {
    let parsed = text.parse::<SocketAddr>().ok();
    let named = parsed.filter(|address| address.port() != 0);
    let named = named.ok_or_else(|| {
        format!(
            "{text:?} is not an address to listen at: write an IP address and a port, such as 192.0.2.1:4793 or [2001:db8::1]:4793"
        )
    })?;
    match named.ip().is_unspecified() || named.ip().is_multicast() {
        true => Err(format!(
            "{named} is no address that another host reaches; write the one of this host by which the others reach it"
        )),
        false => Ok(named),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use super::super::Config;
    use super::*;

    fn parse(listen: &str, key: &Path) -> Result<MigrationSpec, String> {
        let text = format!("[migration]\nlisten = {listen:?}\nkey = {key:?}\n");
        let config = Config::from_text(Path::new("x.toml"), &text, Path::new("/run/vrdma"));
        let config = config.map_err(|error| error.to_string())?;
        Ok(config.migration.unwrap())
    }

    #[test]
    fn a_daemon_listens_where_others_reach_it() {
        let folder = tempfile::tempdir().unwrap();
        let key = folder.path().join("key");
        std::fs::write(&key, "5a".repeat(32)).unwrap();
        std::fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
        let spec = parse("[2001:db8::1]:4793", &key).unwrap();
        assert_eq!(spec.listen, "[2001:db8::1]:4793".parse().unwrap());
        for (listen, sentence) in [
            ("192.0.2.1", "is not an address to listen at"),
            ("host2:4793", "is not an address to listen at"),
            ("192.0.2.1:0", "is not an address to listen at"),
            ("0.0.0.0:4793", "is no address that another host reaches"),
            ("224.0.0.1:4793", "is no address that another host reaches"),
        ] {
            let refused = parse(listen, &key).unwrap_err();
            assert!(
                refused.starts_with("x.toml, line 2, key listen: "),
                "{refused}"
            );
            assert!(refused.contains(sentence), "{refused}");
        }
        let refused = parse("192.0.2.1:4793", &folder.path().join("no")).unwrap_err();
        assert!(
            refused.starts_with("x.toml, line 3, key key: cannot read the key file"),
            "{refused}"
        );
    }
}
