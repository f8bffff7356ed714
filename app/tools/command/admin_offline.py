"""An administrator, or a new password for one, written into the data folder of a member that does not run."""

from app.auth.passwords import Passwords
from app.auth.user_table import UserTable
from app.auth.users import Users
from app.config.settings import Settings
from app.machine.process.data_lock import DataLock
from app.machine.storage.record_file import RecordFile
from app.naming.model.events import Event
from app.naming.records.record_values import check_record
from app.naming.records.records import Records
from distro.timing.clock import SystemClock


def write_admin(settings: Settings, name: str, password: str) -> None:
    """Make ``name`` an administrator with this password, whether or not it exists. Its tokens end.

    The other members get the change when the member starts.

    Raises:
        DataLockError: a node uses the folder.
        SettingError: the folder, or the file in it, cannot be used.
        NacosError: the name or password is not allowed, or the write failed.
    """
    clock = SystemClock()
    table, file = UserTable(), RecordFile(settings.data_dir)

    def publish(_event: Event) -> None:
        """Do nothing: there is no listener, and the member publishes the file's content when it starts."""

    with DataLock(settings.data_dir):
        file.open()
        try:
            writer = f"{settings.self_address}~{clock.wall_ms():x}"
            clocks = clock.wall_ms, clock.monotonic_ms
            records = Records(
                writer, file, *clocks, table.on_record, check_record=check_record, alone=settings.standalone
            )
            records.read_disk()
            Users(records, table, clock.wall_ms, publish).set_admin(name, Passwords().hash(password))
        finally:
            file.close()
