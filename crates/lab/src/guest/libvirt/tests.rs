use super::*;

#[test]
fn the_emulator_is_qemu_with_its_variables_and_what_libvirt_adds() {
    let mut qemu = Command::new("/opt/it's/loader");
    qemu.args(["-L", "/usr/share/qemu"]).env("DIR", "/a b");
    assert_eq!(
        emulator_script(&qemu),
        "#!/bin/sh\nDIR='/a b' exec '/opt/it'\\''s/loader' '-L' '/usr/share/qemu' \"$@\"\n"
    );
}

#[test]
fn arguments_are_attributes_of_a_domain() {
    let json = r#"{"path":"/run/<a>&'b'"}"#;
    assert_eq!(escaped(json), r#"{"path":"/run/&lt;a>&amp;&apos;b&apos;"}"#);
}
