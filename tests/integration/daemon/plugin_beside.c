// The library that a plugin for tests needs.
__attribute__((visibility("default"))) float plugin_beside(void);

float plugin_beside(void)
{
    return 1;
}
