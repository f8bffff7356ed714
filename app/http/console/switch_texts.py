"""What each switch does here, in a sentence, and which the console sets."""

PURPOSES = {
    "healthCheckEnabled": "Whether beats and active checks change the health of instances.",
    "pushEnabled": "Whether changes are pushed to subscribers over UDP.",
    "distroEnabled": "Of Nacos; nothing goes by it here.",
    "lightBeatEnabled": "Whether clients may send short beats, without the instance's description.",
    "defaultInstanceEphemeral": "The kind of an instance that is registered without one.",
    "clientBeatInterval": "How often clients send a beat (ms).",
    "defaultCacheMillis": "How often clients without pushes ask for a list again (ms).",
    "defaultPushCacheMillis": "How often clients with pushes ask for a list again (ms).",
    "checkTimes": "Active checks in a row that must agree before the health changes.",
    "distroThreshold": "Of Nacos; nothing goes by it here.",
    "overriddenServerStatus": "A status for all members in place of their own; null takes it back.",
    "limitedUrlMap": "Paths that are answered with a status and nothing else, as JSON.",
    "httpHealthParams": "How often HTTP checks run: least and most (ms), and the factor between.",
    "tcpHealthParams": "How often TCP checks run: least and most (ms), and the factor between.",
    "pushJavaVersion": "The least version of Java clients that get pushes.",
    "pushGoVersion": "The least version of Go clients that get pushes.",
    "pushCVersion": "The least version of C clients that get pushes.",
    "pushPythonVersion": "The least version of Python clients that get pushes.",
}
EDITED = frozenset(PURPOSES) - {"distroEnabled", "distroThreshold"}
"""The others are shown as they are: nothing goes by them here, or a console is no place to set them."""
