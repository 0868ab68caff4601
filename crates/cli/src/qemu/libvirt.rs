//! The same options for libvirt, which passes what it does not know to QEMU.

use super::QemuOption;

/// The parts of a domain that an adapter needs.
pub(crate) fn domain(options: &[QemuOption]) -> String {
    let words = options
        .iter()
        .flat_map(|option| [option.flag, option.value.as_str()]);
    let arguments: Vec<_> = words
        .map(|word| format!("    <qemu:arg value='{}'/>", escaped(word)))
        .collect();
    format!("{BEFORE}{}\n{AFTER}", arguments.join("\n"))
}

const BEFORE: &str = "\
<domain type='kvm' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
  <memoryBacking>
    <source type='memfd'/>
    <access mode='shared'/>
  </memoryBacking>
  <qemu:commandline>
";

const AFTER: &str = "  </qemu:commandline>\n</domain>";

/// Escapes for an attribute in single quotes (XML 1.0, 2.4).
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('\'', "&apos;")
}
